"""What a graph shows before it is opened: ops in groups, by named scopes, repeated structure, and the flow of data."""
