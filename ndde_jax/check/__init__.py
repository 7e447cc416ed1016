"""May these data be believed: findings, identifiability, theory."""
