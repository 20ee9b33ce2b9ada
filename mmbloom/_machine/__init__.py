"""What the machine says of itself: facts that the package goes by, and nothing of filters.

``mounts``  which file system a path is on
``memory``  how much of it is free, and how much of a file it lets be dirty
"""
