"""Small additions to the simulators, one API behaviour a file.

Each file names the page of the AWS API reference that it follows. An addition
lives here only while the pinned simulator lacks it.
"""
