from paictl.cells.quota import Shortfall, shortfall, surplus

FANOUT = [0, 0, 2, 2, 2, 4]


def test_surplus_splits_what_is_left_above() -> None:
    assert surplus([0, 0, 0, 0, 0, 2], [0, 2, 1, 3, 6, 0], FANOUT) == [0, 0, 1, 1, 2, 2]


def test_quota_that_fits_has_no_shortfall() -> None:
    assert shortfall([0, 0, 0, 0, 0, 2], [0, 2, 1, 3, 6, 0], FANOUT) is None


def test_shortfall_names_the_highest_level_that_does_not_fit() -> None:
    assert shortfall([0, 0, 0, 0, 0, 2], [0, 99, 0, 1, 8, 0], FANOUT) == Shortfall(level=3, needed=1, available=0)


def test_a_level_may_fit_alone_and_fail_together() -> None:
    # one rack free, promised as a rack; its nodes are no longer there for the node quota (HiveD's guard missed this)
    assert shortfall([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1], FANOUT) == Shortfall(level=4, needed=1, available=0)
