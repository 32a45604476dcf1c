"""A PID controller that stops to integrate where its valve is at an end."""


class PID:
    def __init__(self, kp, ki, kd, low=0.0, high=1.0):
        self.kp, self.ki, self.kd, self.low, self.high = kp, ki, kd, low, high
        self._integral = 0.0
        self._last = None

    def __call__(self, error, dt):
        slope = 0.0 if self._last is None else (error - self._last) / dt
        self._last = error
        out = self.kp * error + self.ki * (self._integral + error * dt) + self.kd * slope
        limited = max(self.low, min(self.high, out))
        if out == limited:
            self._integral += error * dt
        return limited
