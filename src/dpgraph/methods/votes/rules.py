"""Public rules: steps, rates and shares of the budget from public numbers of a data set, and from epsilon.

No record is read: nodes, classes and mean degree are declared in the registry, so nothing is paid. The constants are fixed
on synthetic graphs (docs/privacy.md, 12.8), and on no data set that a table shows.
"""

from __future__ import annotations
