"""The scheduler on a cluster: `feed` keeps the state true, `cycle` decides, `binding` and `telling` carry it out, `run`
puts them together. All loops and all I/O of the scheduler are here."""
