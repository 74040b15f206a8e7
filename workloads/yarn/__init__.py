"""An experiment from YARN's configuration files and applications: ``natjam import yarn``.

In: ``yarn-site.xml``, the scheduler's file, and what a ResourceManager says of its applications.
Out: an experiment file, and where each of its settings comes from.
"""
