"""Decision maths: numpy in, values out, no torch and no I/O beyond the path it is handed."""
