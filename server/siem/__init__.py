"""The audit trail in the forms that systems for security events read. Each record is one line, and names its hash."""
