"""The detectors of river, and settings of theirs from few to many alarms.

river is not a dependency: `pip install river`.
"""

import numpy as np
from river import drift

RIVER = {
    "ADWIN": drift.ADWIN,
    "Page-Hinkley": drift.PageHinkley,
    "KSWIN": lambda **settings: drift.KSWIN(seed=0, **settings),
}
GRIDS = {  # from few to many alarms
    "ADWIN": [{"delta": 10.0**-k} for k in np.arange(8, 0, -0.5)],
    "Page-Hinkley": [{"threshold": float(t)} for t in (200, 150, 100, 80, 60, 50, 40, 30, 25, 20, 15, 10)],
    "KSWIN": [{"alpha": 10.0**-k} for k in np.arange(7, 2, -0.5)],
}


def alarms(rows, name, **settings):
    """Each row at which a detector reports a change, and the detector after it."""
    detector = RIVER[name](**settings)
    for row, value in enumerate(rows):
        detector.update(float(value))
        if detector.drift_detected:
            yield row, detector


def changes(rows, name, **settings):
    """First rows of new segments: the rows of alarms; for ADWIN, where its window begins."""
    return [
        row + 1 - int(detector.width) if name == "ADWIN" else row
        for row, detector in alarms(rows, name, **settings)
    ]


def first_alarm(rows, name, **settings):
    """Row of the first alarm; the number of rows if there is none."""
    return next((row for row, _ in alarms(rows, name, **settings)), len(rows))
