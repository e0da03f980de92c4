"""What every recovery strategy owes: plans that hold together, and a ledger that closes; from a checkout of Ettrick."""

from tests.recovery_checks import check_recovery


def test_reboot_first():
    """Clusters that fail often still add up."""
    check_recovery({"use": "reboot-first", "restart": "20 s", "launch": "60 s"})
