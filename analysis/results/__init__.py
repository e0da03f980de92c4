"""What commands find, as documents."""
