-- The experiment store, version 1; later versions stand in migrate.c. Times are microseconds since 1970, UTC. docs/experiments.md explains the columns.

CREATE TABLE sweep(
    id INTEGER PRIMARY KEY,
    spec TEXT NOT NULL,
    method TEXT NOT NULL,
    goal TEXT NOT NULL
);

CREATE TABLE run(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    experiment TEXT NOT NULL DEFAULT 'default',
    parent_id INTEGER REFERENCES run(id),
    sweep_id INTEGER REFERENCES sweep(id),
    grp TEXT,
    status TEXT NOT NULL CHECK(status IN ('running', 'paused', 'finished', 'failed', 'killed', 'diverged')),
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    heartbeat_us INTEGER NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    device TEXT,
    seed INTEGER,
    cmdline TEXT,
    cwd TEXT,
    script_path TEXT,
    script_args TEXT,
    script_sha TEXT,
    git_commit TEXT,
    git_diff_sha TEXT,
    env_json TEXT,
    model_name TEXT,
    model_text TEXT,
    model_sha TEXT,
    n_params INTEGER,
    dataset TEXT,
    data_fp TEXT,
    note TEXT,
    error TEXT,
    deleted_us INTEGER
);
CREATE INDEX run_order ON run(deleted_us, experiment, started_us);
CREATE INDEX run_live ON run(status) WHERE status IN ('running', 'paused');

CREATE TABLE param(
    run_id INTEGER NOT NULL REFERENCES run(id),
    key TEXT NOT NULL,
    value TEXT,
    num REAL,
    PRIMARY KEY(run_id, key)
) WITHOUT ROWID;
CREATE INDEX param_key ON param(key, num);

CREATE TABLE tag(
    run_id INTEGER NOT NULL REFERENCES run(id),
    tag TEXT NOT NULL,
    PRIMARY KEY(run_id, tag)
) WITHOUT ROWID;

-- Kept up to date in the transaction that adds the points, so that lists never read them.
CREATE TABLE series(
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run(id),
    key TEXT NOT NULL,
    n INTEGER NOT NULL DEFAULT 0,
    n_nan INTEGER NOT NULL DEFAULT 0,
    first REAL,
    first_step INTEGER,
    last REAL,
    last_step INTEGER,
    min REAL,
    min_step INTEGER,
    max REAL,
    max_step INTEGER,
    sum REAL DEFAULT 0,
    UNIQUE(run_id, key)
);
CREATE INDEX series_key ON series(key, last);

-- NaN is NULL; infinities are kept.
CREATE TABLE metric(
    series_id INTEGER NOT NULL,
    step INTEGER NOT NULL,
    t_us INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY(series_id, step)
) WITHOUT ROWID;

CREATE TABLE event(
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run(id),
    step INTEGER,
    t_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT,
    json TEXT
);
CREATE INDEX event_run ON event(run_id, t_us);

CREATE TABLE artifact(
    run_id INTEGER NOT NULL REFERENCES run(id),
    name TEXT NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL,
    sha TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    path TEXT,
    PRIMARY KEY(run_id, name, step)
) WITHOUT ROWID;

CREATE TABLE blob(
    sha TEXT PRIMARY KEY,
    data BLOB NOT NULL
);

CREATE VIEW metrics(run, key, step, ts, value) AS
    SELECT s.run_id, s.key, m.step, m.t_us / 1e6, m.value
    FROM series AS s JOIN metric AS m ON m.series_id = s.id;
