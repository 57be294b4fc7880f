"""Everything on one machine: starts the components as child processes, supervises them, stops them.

`plan` says what runs, `data_dir` where things are kept, `supervisor` keeps the processes alive, `bootstrap` puts the
first objects into the API, `picture` and `this_node` show the state of the cluster. `koord.operate.health` judges it,
and `koord.kube.tether` is the child's end of the supervision. `installed`, `monitoring` and `monitored` run Prometheus
and Grafana beside it.
"""
