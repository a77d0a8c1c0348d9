"""The doors: the MCP tool over stdio and HTTP, and the command line. They translate and hold no rule of their own."""
