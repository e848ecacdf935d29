"""Arrays in, arrays out: the arithmetic that a device must offer, and the devices that offer it."""
