"""Rules about host lists: master.csv and worker.csv, one line `hostname,address` a machine."""
