"""Read XLA:TPU's files under --xla_jf_dump_to (LLO dumps) into frozen records.

`names` classifies files, and `grouping` assigns them to compilations. `bundles`, `utilization`,
`analysis`,
`fingerprints` and `memory_space` each read one kind of file; `program` and `schedule` combine them.
`chips` and `layouts` explain the numbers.
"""
