"""Every state that a crash may leave is recovered: nothing lost, nothing invented, none refused."""

import pytest

from tests.support.explorer import all_plans, explore_all, main, parse_plan

STATES = 300_000
