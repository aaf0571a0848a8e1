"""Every state that a crash may leave is recovered: nothing lost, nothing invented, none refused."""

STATES = 300_000
