"""Read XLA:TPU's files under --xla_jf_dump_to (the LLO dumps) into frozen records.

`names` tells the files apart, `grouping` gives them to compilations, `bundles`, `utilization`,
`analysis`, `fingerprints` and `memory_space` read one kind of file each, `program` and `schedule`
put them together; `chips` and `layouts` say what the numbers mean.
"""
