"""Equal to theory: an assertion contains the theory's number, with an interval computed from n if it is drawn."""
