//! Byte streams between the switch and its controllers, databases and tools: unix, TCP and TLS.
