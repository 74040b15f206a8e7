"""What runs on the cluster: the workload part of an experiment file, trace importers, and the catalogue."""
