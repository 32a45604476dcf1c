"""Patients: time, whether the event was seen, and covariates."""
import csv
import io

import numpy as np

TABLE = """time,event,age,dose,marker
5.1,1,61,0.5,1.2
8.4,0,54,1.0,0.4
3.3,1,70,0.0,2.2
12.7,1,48,1.0,0.1
9.9,0,66,0.5,0.8
2.2,1,73,0.0,1.9
7.5,1,59,0.5,1.1
15.0,0,45,1.0,0.3
"""


def load():
    rows = list(csv.DictReader(io.StringIO(TABLE)))
    names = [name for name in rows[0] if name not in ("time", "event")]
    x = np.array([[float(row[name]) for name in names] for row in rows])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.array([float(r["time"]) for r in rows]), np.array([r["event"] == "1" for r in rows]), x
