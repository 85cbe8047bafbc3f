"""Rows in partitions on a cluster: Dask, Ray, or any executor over files; rows never come here."""
