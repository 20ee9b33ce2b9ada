"""An open filter of several files.

``folder``    made, opened, closed, asked and told
``chain``     which files there are, the newest locked; keys looked up newest first
``member``    one file of the chain
``growing``   `GrowingFilter`, and how it goes to the next file
``rotating``  `RotatingFilter`, and how it drops one
``grow``      a full file becomes the first of a growing folder
``info``      `FolderInfo`: what a folder says of itself
"""
