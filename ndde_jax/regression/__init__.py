from ._features import (
    QUANTILES as QUANTILES,
    WIDTH as WIDTH,
    knots_of as knots_of,
    spline_terms as spline_terms,
)
from ._readings import (
    CLEARLY as CLEARLY,
    Readings as Readings,
    compare_readings as compare_readings,
)
from ._search import (
    Problem as Problem,
    Selection as Selection,
    columns_price as columns_price,
    search as search,
    search_known as search_known,
)
from ._sums import Grouped as Grouped, Sums as Sums, grouped as grouped, sums_of as sums_of
