"""The initial view of a graph: ops in groups, by named scopes, repeated structure, and data
flow.
"""
