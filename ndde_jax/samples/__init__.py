"""What was measured: tables, containers, time stamps, gaps, and the noise they carry."""
