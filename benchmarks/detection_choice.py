"""Settings for each series: the best on it, as the oracle has them, or the best on the others."""

import numpy as np

from experiments import change_detection_tcpd as tcpd

SCORES = "covering", "f1"


def chosen(tables):
    """The best score of each series, and that with the settings best on all others.

    `tables` has the scores of each series, for each setting.
    """
    names = list(tables[0])
    best, elsewhere = {name: {} for name in names}, {name: {} for name in names}
    for score in SCORES:
        values = np.array([[table[name][score] for name in names] for table in tables])
        others = values.sum(1, keepdims=True) - values
        for at, name in enumerate(names):
            best[name][score] = float(values[:, at].max())
            elsewhere[name][score] = float(values[others[:, at].argmax(), at])
    return {
        "num_settings": len(tables),
        "mean": tcpd.means(best),
        "series": best,
        "elsewhere": {"mean": tcpd.means(elsewhere), "well_log": elsewhere["well_log"]},
    }
