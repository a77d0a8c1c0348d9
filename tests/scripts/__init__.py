"""The command line as people use it: ``*.script`` files are sessions, run line by line in a folder of their own."""
