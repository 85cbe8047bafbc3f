"""The service behind `evidentia serve`: monitors of live streams, their results, alarms, a page.

`settings` checks the configuration. A `worker` for each stream reads messages, cuts batches of
each key (`batches`), gives them to the `monitors`, keeps results (`records`), and saves all of it
with the position in one file (`bundle`). `web` answers HTTP, `metrics` Prometheus, and `webhooks`
delivers alarms. `running` puts them together.
"""
