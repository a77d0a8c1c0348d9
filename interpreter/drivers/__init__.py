"""One file a backend. A driver says what a service manager says; what that means is decided in ``service``."""
