"""Reports: what results say, for who decides and for who wants to know."""
