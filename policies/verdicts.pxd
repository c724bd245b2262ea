# Types of verdicts.py for the compiled build. The rules are in the .py file.

cpdef check_request(verdict)
