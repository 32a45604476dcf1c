"""Vectors with operators."""
import math


class Vec3:
    __slots__ = ("x", "y", "z")

    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def __add__(self, o):
        return Vec3(self.x + o.x, self.y + o.y, self.z + o.z)

    def __sub__(self, o):
        return Vec3(self.x - o.x, self.y - o.y, self.z - o.z)

    def __mul__(self, k):
        return (Vec3(self.x * k.x, self.y * k.y, self.z * k.z) if isinstance(k, Vec3)
                else Vec3(self.x * k, self.y * k, self.z * k))

    __rmul__ = __mul__

    def dot(self, o):
        return self.x * o.x + self.y * o.y + self.z * o.z

    def norm(self):
        return self * (1.0 / math.sqrt(self.dot(self)))

    def __iter__(self):
        return iter((self.x, self.y, self.z))
