"""Commands and files on many hosts at once, by SSH; the only code that uses fabric.

Host keys are verified always. A host that does not answer, a link that is cut, a host that froze: all end in bounded
time. It must never write a password into a command line, a message or a file.
"""
