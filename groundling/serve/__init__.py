"""The web server: a page for people, JSON for programs. Started by `groundling serve`; needs the extra `[serve]`.

A request passes `middleware` (token, host, logs), `bodies` (bytes are counted), `handlers` and `requests` (JSON or a
query becomes a dataclass), `engine` (decode, extract regions, infer in small batches) and `responses` (JSON). What goes
wrong becomes one of `problems`, with its cure.
"""
