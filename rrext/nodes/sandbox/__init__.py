"""The sandbox for untrusted programs.

The walls, outside in. `warden`: a process of its own, without capabilities, in a Landlock domain that can read the
interpreter, the packages that its component is granted, and nothing else. `sandlock`: a second domain and a system-call
filter for each program, whose supervisor dies with the warden and takes the program along. `guest`: before the program
starts, a third filter that allows only named system calls. `supervisor` looks at the walls from outside before it hands the
program over.
"""
