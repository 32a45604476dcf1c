"""A quadtree of masses."""


class Node:
    def __init__(self, cx, cy, half):
        self.cx, self.cy, self.half = cx, cy, half
        self.mass = self.mx = self.my = 0.0
        self.body = None
        self.children = None

    def insert(self, body):
        if self.children is None and self.body is None:
            self.body = body
        else:
            if self.children is None:
                self.split()
                self.child(self.body).insert(self.body)
                self.body = None
            self.child(body).insert(body)
        self.mass += body.mass
        self.mx += body.mass * body.x
        self.my += body.mass * body.y

    def split(self):
        q = self.half / 2
        self.children = [Node(self.cx + sx * q, self.cy + sy * q, q) for sx in (-1, 1) for sy in (-1, 1)]

    def child(self, body):
        return self.children[2 * (body.x > self.cx) + (body.y > self.cy)]

    def walk(self):
        yield self
        for child in self.children or ():
            yield from child.walk()
