"""The web server: a page for people, JSON for programs. Started by `groundling serve`; needs the extra `[serve]`.

A request passes `guard` (token, host, logs), `bodies` (bytes are counted), `asks` (what is asked becomes a dataclass),
`engine` (decode, find regions, infer in small batches) and comes back as JSON, or as a problem with its cure.
"""
