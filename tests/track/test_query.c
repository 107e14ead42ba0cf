/* Asking the store: lists, filters, one run in full, comparison, the best, points, SQL, CSV; and outside readers. */
#include "track/support.h"

static dl_store *s;

static void add_run(const char *name, const char *lr, const char *opt, double acc, int n, dl_run_status st) {
    const char *params[] = {"lr", lr, "opt", opt, "same", "1", "loss", n > 10 ? "mse" : "nll", NULL};
    dl_run_spec spec = {.name = name,
                        .seed = 42,
                        .params = params,
                        .script_text = "train t",
                        .device = "cpu",
                        .n_params = n,
                        .model_name = "net"};
    dl_run *r = dl_run_begin(s, &spec);
    has(r);
    for (int i = 0; i < n; i++) {
        ok(dl_metric(r, "loss", i, 1.0 / (1 + i)));
        ok(dl_metric(r, "test/acc", i, i == 1 ? acc : acc / 2));
    }
    ok(dl_run_event(r, 3, "checkpoint", "saved", NULL));
    ok(dl_run_artifact(r, "m", 3, "weights", "abc", 3));
    ok(dl_run_end(r, st, st == DL_RUN_FAILED ? "boom" : NULL));
}

static int fill(void **state) {
    if (make_dir(state)) return -1;
    s = dl_store_open(db_path);
    add_run("alpha", "1e-3", "adam", 0.9, 10, DL_RUN_FINISHED);
    add_run("beta", "0.01", "sgd", 0.8, 20, DL_RUN_FINISHED);
    add_run("gamma", "0.1", "sgd", NAN, 5, DL_RUN_DIVERGED);
    add_run("delta", "0.001", "adam", 0.95, 10, DL_RUN_FAILED);
    add_run("3", "none", "sgd", 0.5, 0, DL_RUN_FINISHED);
    ok(dl_run_tag(s, 1, "good", 1));
    ok(dl_run_tag(s, 4, "good", 1));
    ok(dl_run_tag(s, 4, "odd", 1));
    return 0;
}

static int empty(void **state) {
    ok(dl_store_close(s));
    return remove_dir(state);
}

/* Ids of the list as text: "5,4,3". */
static const char *ids(const char *where, const char *sort, long limit) {
    static char text[256];
    dl_run_list *l = dl_run_query_list(s, &(dl_run_query){.where = where, .sort = sort, .limit = limit});
    if (!l) return dl_errmsg();
    text[0] = 0;
    for (long i = 0; i < l->n; i++) sprintf(text + strlen(text), "%s%ld", i ? "," : "", l->runs[i].id);
    dl_run_list_free(l);
    return text;
}

static void lists(void **state) {
    (void)state;
    assert_string_equal(ids(NULL, NULL, 0), "5,4,3,2,1");
    assert_string_equal(ids("", "", 2), "5,4");
    assert_string_equal(ids(NULL, "id", 0), "1,2,3,4,5");
    assert_string_equal(ids(NULL, "-test/acc", 0), "4,1,2,5,3");
    assert_string_equal(ids(NULL, "max(test/acc)", 0), "2,1,4,5,3");
    assert_string_equal(ids(NULL, "-lr", 0), "5,3,2,4,1"); /* text sorts after numbers */
    assert_string_equal(ids(NULL, "name", 2), "5,1");
    dl_run_list *l = dl_run_query_list(s, &(dl_run_query){.where = "name = alpha"});
    has(l);
    assert_int_equal(l->n, 1);
    const dl_run_info *r = l->runs;
    assert_string_equal(r->name, "alpha");
    assert_int_equal(r->status, DL_RUN_FINISHED);
    assert_int_equal(r->seed, 42);
    assert_int_equal(r->nparam, 4);
    assert_string_equal(r->params[1].key, "lr");
    assert_true(r->params[1].num == 1e-3);
    assert_true(isnan(r->params[2].num));
    assert_int_equal(r->ntag, 1);
    assert_string_equal(r->tags[0], "good");
    assert_int_equal(r->nseries, 2);
    assert_string_equal(r->series[1].key, "train/loss");
    assert_int_equal(r->series[1].n, 10);
    assert_true(r->series[1].first == 1 && r->series[1].last == 0.1 && r->series[1].last_step == 9);
    assert_true(r->series[0].max == 0.9 && r->series[0].max_step == 1);
    assert_true(fabs(r->series[0].mean - 0.495) < 1e-12);
    assert_true(r->seconds >= 0 && r->ended_us >= r->started_us);
    assert_string_equal(r->script_text, "");
    dl_run_list_free(l);
}

static void filters(void **state) {
    (void)state;
    static const struct {
        const char *where, *want;
    } cases[] = {
        {"status = finished", "5,2,1"},
        {"status != finished", "4,3"},
        {"status = finished and lr < 0.005", "1"},
        {"lr = 0.001", "4,1"}, /* as numbers */
        {"lr = \"0.001\"", "4"},
        {"opt = adam or test/acc < 0.41 and loss < 0.06", "4,2,1"},
        {"(opt = adam or lr = 0.1) and not tag = odd", "3,1"},
        {"tag = good && !(tag == odd)", "1"},
        {"tag != good", "5,3,2"},
        {"max(test/acc) >= 0.9", "4,1"},
        {"min(loss) <= 0.05", "2"},
        {"n(loss) = 20", "2"},
        {"loss = mse", "2"}, /* the parameter: a metric has no text */
        {"loss ~ l and loss > 0", "4,3,1"},
        {"first(train/loss) = 1", "4,3,2,1"},
        {"acc > 0.4", "4,1"}, /* a bare metric that only test has */
        {"name ~ a", "4,3,2,1"},
        {"name = 3", "5"}, /* text, though it looks like a number */
        {"error ~ oo", "4"},
        {"seed = 42 and id <= 2", "2,1"},
        {"n_params >= 10", "4,2,1"},
        {"seconds < 100", "5,4,3,2,1"},
        {"name='alpha'", "1"},
        {"lr>=1e-2", "3,2"},
        {"   ", "5,4,3,2,1"},
        {"started > \"2020-01-01\" and started < tomorrow", "5,4,3,2,1"},
        {"started = today or started = yesterday", "5,4,3,2,1"},
        {"started >= 2 days ago and started > 1h30m ago", "5,4,3,2,1"},
        {"started < 01.02.2021 or ended < \"2021-02-01T10:00+02:00\" or started = 2019", ""},
        {"started <= now and not started > 2020-01", ""},
        {"not ended = none", "5,4,3,2,1"},
        {"seconds < 2h and seconds <= 1:30", "5,4,3,2,1"},
        {"seconds > 1h", ""},
        {"opt in (adam, lamb)", "4,1"},
        {"opt not in (adam, \"lamb\") and status in (finished)", "5,2"},
        {"id in (1, 3, 5)", "5,3,1"},
        {"tag in (odd, x)", "4"},
        {"tag not in (odd)", "5,3,2,1"},
        {"name like \"%a\" and name not like \"g%\"", "4,2,1"},
        {"name ~ \"_\"", ""},
        {"name ~ %", ""},
        {"name !~ a", "5"},
        {"name ~~ \"^(al|be)\"", "2,1"},
        {"name !~~ \"a$\"", "5"},
        {"opt ~~ \"^ad\" and tag ~ oo", "4,1"},
        {"tag = none", "5,3,2"},
        {"tag is not none and error is none", "1"},
        {"lr = none", "5"},
        {"lr < \"0.005\"", "4,1"},
        {"best(test/acc) > 0.85 and best(loss) < 0.2", "4,1"},
        {"status != finished and status <> failed", "3"},
        {"NOT status = finished AND (tag = good OR lr > 0.05)", "4,3"},
        {"n_params <> 10", "5,3,2"},
        {"\"test/acc\" > 0.4", "4,1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(ids(cases[i].where, NULL, 0), cases[i].want))
            fail_msg("%s: %s, not %s", cases[i].where, ids(cases[i].where, NULL, 0), cases[i].want);
}

static void refuses_bad_filters(void **state) {
    (void)state;
    static const struct {
        const char *where;
        dl_status code;
        const char *says;
    } cases[] = {
        {"status", DL_ERR_SYNTAX, "expected at its end"},
        {"status = ", DL_ERR_SYNTAX, "a value expected"},
        {"(status = failed", DL_ERR_SYNTAX, "')' expected"},
        {"name = a b", DL_ERR_SYNTAX, "'and', 'or' or the end"},
        {"= 3", DL_ERR_SYNTAX, "a name expected"},
        {"name = 'x", DL_ERR_SYNTAX, "a closing quote is missing"},
        {"nosuch = 3", DL_ERR_NAME, "no run has a parameter or metric 'nosuch'"},
        {"test/none < 1", DL_ERR_NAME, "no run has a metric 'test/none'"},
        {"test/acc = good", DL_ERR_TYPE, "'good' is not a number"},
        {"median(loss) < 1", DL_ERR_NAME, "no statistic 'median'"},
        {"name = a; drop table run", DL_ERR_SYNTAX, "expected at '; drop"},
        {"lr >", DL_ERR_SYNTAX, "a value expected at its end"},
        {"status = finnished", DL_ERR_VALUE, "no status is called 'finnished'"},
        {"status in (failed, stuck)", DL_ERR_VALUE, "'stuck'"},
        {"status > failed", DL_ERR_TYPE, "statuses have no order"},
        {"n_params > many", DL_ERR_TYPE, "n_params is a number, 'many' is not a number"},
        {"id in (1, two)", DL_ERR_TYPE, "'two' is not a number"},
        {"opt > 3", DL_ERR_TYPE, "opt has no numbers to compare 3 with"},
        {"started > soon", DL_ERR_VALUE, "started is a date, 'soon' is none"},
        {"started = 2026-02-30", DL_ERR_VALUE, "is a date"},
        {"seconds > long", DL_ERR_VALUE, "seconds is a duration"},
        {"name ~~ \"(a\"", DL_ERR_VALUE, "is not a regular expression"},
        {"name ~~ \"(a{99}){99}\"", DL_ERR_VALUE, "repeats too often"},
        {"name ~~ \"(a)\\1\"", DL_ERR_VALUE, "back reference"},
        {"id in 1", DL_ERR_SYNTAX, "'(' and values expected"},
        {"id in (1, 2", DL_ERR_SYNTAX, "',' or ')' expected at its end"},
        {"test/acc < nan", DL_ERR_TYPE, "is not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(dl_run_query_list(s, &(dl_run_query){.where = cases[i].where}));
        assert_int_equal(dl_failed(), cases[i].code);
        error_says(cases[i].says);
    }
    assert_null(dl_run_query_list(s, &(dl_run_query){.where = "stats = finished"}));
    assert_string_equal(dl_error_last()->hint, "did you mean 'status'?");
    static const struct {
        const char *where, *hint;
        int at, length;
    } places[] = {
        {"id > 1 and status = finnished", "did you mean 'finished'? there are running, paused", 20, 9},
        {"n_params > many", "its values are 0, 5, 10, 20", 11, 4},
        {"opt >= 3", "its values are adam, sgd", 7, 1},
        {"id = 1 and otp = adam", "did you mean 'opt'?", 11, 3},
        {"min(tset/loss) < 1", "did you mean 'test/loss'?", 0, 13},
        {"lr >", "for example", 4, 1},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_not_equal(dl_run_filter_check(s, places[i].where), DL_OK);
        const dl_error *e = dl_error_last();
        if (!strstr(e->hint, places[i].hint) && i != 4) fail_msg("%s: hint '%s'", places[i].where, e->hint);
        if (e->at != places[i].at || e->length != places[i].length)
            fail_msg("%s: at %d, %d bytes", places[i].where, e->at, e->length);
    }
    assert_null(dl_run_query_list(s, &(dl_run_query){.sort = "lr desc"}));
    char deep[400] = "";
    memset(deep, '(', 300);
    assert_null(dl_run_query_list(s, &(dl_run_query){.where = deep}));
    error_says("nested too deeply");
    /* quoting is none of the user's business */
    assert_string_equal(ids("name = \"'; drop table run; --\"", NULL, 0), "");
}

static void deletes(void **state) {
    (void)state;
    ok(dl_run_delete(s, 2, 1));
    assert_string_equal(ids(NULL, NULL, 0), "5,4,3,1");
    dl_run_list *l = dl_run_query_list(s, &(dl_run_query){.deleted = 1});
    has(l);
    assert_int_equal(l->n, 1);
    assert_int_equal(l->runs->id, 2);
    dl_run_list_free(l);
    ok(dl_run_delete(s, 2, 0));
    assert_string_equal(ids(NULL, NULL, 0), "5,4,3,2,1");
}

static void shows(void **state) {
    (void)state;
    dl_run_list *l = dl_run_show(s, 4);
    has(l);
    const dl_run_info *r = l->runs;
    assert_string_equal(r->script_text, "train t");
    assert_string_equal(r->error, "boom");
    assert_non_null(strstr(r->cmdline, "test_track_query"));
    assert_non_null(strstr(r->env_json, "sqlite"));
    assert_int_equal(r->nevent, 1);
    assert_string_equal(r->events[0].kind, "checkpoint");
    assert_int_equal(r->events[0].step, 3);
    long changes = r->nartifact && !strcmp(r->artifacts[0].name, "git.diff.gz"); /* of the sources of this test */
    assert_int_equal(r->nartifact, 2 + changes);                                 /* the script is one */
    assert_string_equal(r->artifacts[changes].name, "m");
    assert_int_equal(r->artifacts[changes].bytes, 3);
    assert_int_equal(r->ntag, 2);
    dl_run_list_free(l);
    assert_null(dl_run_show(s, 99));
    error_says("no run 99");
}

static void finds(void **state) {
    (void)state;
    long id;
    ok(dl_run_find(s, "2", &id));
    assert_int_equal(id, 2);
    ok(dl_run_find(s, "last", &id));
    assert_int_equal(id, 5);
    ok(dl_run_find(s, "gamma", &id));
    assert_int_equal(id, 3);
    char uuid[37];
    snprintf(uuid, sizeof uuid, "%.9s", ask_text("select upper(uuid) from run where id = 4"));
    ok(dl_run_find(s, uuid, &id));
    assert_int_equal(id, 4);
    assert_int_equal(dl_run_find(s, "77", &id), DL_ERR_NAME);
    assert_int_equal(dl_run_find(s, "omega", &id), DL_ERR_NAME);
}

static void compares(void **state) {
    (void)state;
    dl_comparison *c = dl_run_compare(s, (long[]){1, 2, 5}, 3, 0);
    has(c);
    assert_int_equal(c->n, 3);
    char text[256] = "";
    for (long i = 0; i < c->nparam; i++) sprintf(text + strlen(text), "%s ", c->params[i].key);
    assert_string_equal(text, "loss lr opt n_params ");
    assert_string_equal(c->params[1].values[0], "1e-3");
    assert_string_equal(c->params[1].values[1], "0.01");
    assert_int_equal(c->nseries, 2);
    assert_string_equal(c->series[0].key, "test/acc");
    assert_true(c->series[0].cells[1]->max == 0.8 && c->series[0].cells[1]->max_step == 1);
    assert_null(c->series[0].cells[2]);
    dl_comparison_free(c);
    c = dl_run_compare(s, (long[]){1, 4}, 2, 1);
    has(c);
    int same = 0;
    for (long i = 0; i < c->nparam; i++) {
        if (!strcmp(c->params[i].key, "same")) same = !c->params[i].differs;
        assert_true(!i || c->params[i].differs <= c->params[i - 1].differs); /* what differs comes first */
    }
    assert_int_equal(same, 1);
    assert_int_equal(c->params[0].differs, 1);
    dl_comparison_free(c);
    assert_null(dl_run_compare(s, (long[]){1, 9}, 2, 0));
    error_says("no run 9");
    assert_null(dl_run_compare(s, NULL, 0, 0));
}

static void knows_directions(void **state) {
    (void)state;
    static const char *const up[] = {"test/acc",      "acc",           "f1", "val/auc",
                                     "test/acc_top5", "top1_accuracy", "R2", "train/f1-macro"};
    static const char *const down[] = {"loss",     "test/loss",      "mse", "err", "acc_loss", "perplexity", "time",
                                       "acc/loss", "test/error_rate"};
    for (size_t i = 0; i < sizeof up / sizeof *up; i++)
        if (dl_metric_direction(up[i]) != 1) fail_msg("%s", up[i]);
    for (size_t i = 0; i < sizeof down / sizeof *down; i++)
        if (dl_metric_direction(down[i]) != -1) fail_msg("%s", down[i]);
    assert_int_equal(dl_metric_better("val/acc"), 1);
    assert_int_equal(dl_metric_better("val/rmse"), -1);
    assert_int_equal(dl_metric_better("grad_norm"), 0);
    assert_int_equal(dl_metric_better("lr"), 0);
}

static void ranks(void **state) {
    (void)state;
    dl_ranking *r = dl_run_best(s, "acc", 0, NULL, 0);
    has(r);
    assert_string_equal(r->metric, "test/acc");
    assert_int_equal(r->direction, 1);
    assert_int_equal(r->n, 3); /* neither the run without points nor the one with NaN alone */
    assert_int_equal(r->entries[0].run->id, 4);
    assert_true(r->entries[0].value == 0.95 && r->entries[0].step == 1);
    dl_ranking_free(r);
    has(r = dl_run_best(s, "loss", 0, NULL, 1));
    assert_int_equal(r->direction, -1);
    assert_int_equal(r->entries[0].run->id, 2);
    assert_true(r->entries[0].value == 0.05 && r->entries[0].step == 19);
    dl_ranking_free(r);
    has(r = dl_run_best(s, "test/acc", -1, "status = finished", 0));
    assert_int_equal(r->entries[0].run->id, 2);
    dl_ranking_free(r);
    assert_null(dl_run_best(s, "test/ac", 0, NULL, 0));
    assert_string_equal(dl_error_last()->hint, "did you mean 'test/acc'?");
    assert_null(dl_run_best(s, "test/acc", 0, "name = 3", 0));
    error_says("no run that fits");
}

static void gives_points(void **state) {
    (void)state;
    dl_points *p = dl_series_points(s, 2, "loss", 0);
    has(p);
    assert_int_equal(p->n, 20);
    assert_true(p->step[19] == 19 && p->value[19] == 0.05 && p->low[3] == 0.25 && p->count[3] == 1);
    dl_points_free(p);
    has(p = dl_series_points(s, 2, "loss", 4));
    assert_int_equal(p->n, 4);
    assert_int_equal(p->total, 20);
    assert_true(p->step[0] == 2 && p->count[0] == 5);
    assert_true(fabs(p->value[0] - (1 + 0.5 + 1.0 / 3 + 0.25 + 0.2) / 5) < 1e-15);
    assert_true(p->low[0] == 0.2 && p->high[0] == 1);
    dl_points_free(p);
    has(p = dl_series_points(s, 3, "test/acc", 2)); /* all NaN */
    assert_true(p->n == 2 && isnan(p->value[0]) && isnan(p->low[1]));
    dl_points_free(p);
    assert_null(dl_series_points(s, 5, "loss", 0));
    error_says("run 5 has no metric");
    /* gaps in the steps: intervals without a point are left out */
    dl_run *r = dl_run_begin(s, NULL);
    const long steps[] = {0, 1, 2, 1000, 1001};
    for (int i = 0; i < 5; i++) ok(dl_metric(r, "x/gap", steps[i], i));
    has(p = dl_series_points(s, dl_run_id(r), "x/gap", 4)); /* pushed a moment ago, and already there */
    assert_int_equal(p->n, 2);
    assert_true(p->step[0] == 1 && p->value[0] == 1 && p->value[1] == 3.5);
    dl_points_free(p);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
}

static void runs_sql(void **state) {
    (void)state;
    dl_rows *q = dl_store_sql(s, "select id, name, null as absent, 0.5 as half, x'0102' from run order by id limit 2;");
    has(q);
    assert_int_equal(dl_rows_width(q), 5);
    assert_string_equal(dl_rows_name(q, 2), "absent");
    assert_int_equal(dl_rows_next(q), 1);
    char types[6] = {dl_rows_type(q, 0), dl_rows_type(q, 1), dl_rows_type(q, 2), dl_rows_type(q, 3),
                     dl_rows_type(q, 4)};
    assert_string_equal(types, "itnfb");
    assert_int_equal(dl_rows_int(q, 0), 1);
    assert_string_equal(dl_rows_text(q, 1), "alpha");
    assert_null(dl_rows_text(q, 2));
    assert_true(dl_rows_float(q, 3) == 0.5);
    long n;
    assert_memory_equal(dl_rows_blob(q, 4, &n), "\1\2", 2);
    assert_int_equal(n, 2);
    assert_int_equal(dl_rows_next(q), 1);
    assert_int_equal(dl_rows_next(q), 0);
    dl_rows_free(q);
    has(q = dl_store_sql(s, "pragma table_info(run)"));
    assert_int_equal(dl_rows_next(q), 1);
    dl_rows_free(q);
    has(q = dl_store_sql(s, "with recursive c(x) as (select 1 union all select x + 1 from c) select sum(x) from c"));
    dl_interrupt_set(1);
    assert_int_equal(dl_rows_next(q), -1);
    assert_int_equal(dl_failed(), DL_ERR_INTERRUPT);
    dl_interrupt_set(0);
    dl_rows_free(q);
    has(q = dl_store_sql(s, "select abs(-9223372036854775807 - 1)"));
    assert_int_equal(dl_rows_next(q), -1);
    error_says("integer overflow");
    dl_rows_free(q);
}

static void sql_only_reads(void **state) {
    (void)state;
    static const char *const bad[] = {
        "delete from run",
        "update run set name = 'x'",
        "insert into tag values(1, 'x')",
        "drop table run",
        "create table t(x)",
        "attach 'other.db' as o",
        "vacuum",
        "vacuum into 'x.db'",
        "pragma query_only = 0",
        "pragma user_version = 9; select 1",
        "pragma journal_mode = delete",
        "begin immediate",
        "reindex",
        "analyze",
        "select 1; delete from run",
        "select load_extension('x')",
        "pragma wal_checkpoint",
        "",
        "-- nothing",
        "select from",
        "create temp table t(x)",
        "pragma writable_schema = 1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_rows *q = dl_store_sql(s, bad[i]);
        if (q) fail_msg("%s was taken", bad[i]);
    }
    assert_string_equal(ids(NULL, NULL, 0), "5,4,3,2,1");
}

static void exports(void **state) {
    (void)state;
    char csv[400], line[256];
    snprintf(csv, sizeof csv, "%s/x.csv", dir);
    ok(dl_store_export(s, csv, &(dl_export_spec){.ids = (long[]){3}, .n = 1}));
    FILE *f = fopen(csv, "r");
    assert_non_null(f);
    int n = 0, empty_values = 0;
    while (fgets(line, sizeof line, f)) {
        if (!n++) assert_string_equal(line, "run,key,step,ts,value,uuid\n");
        if (n > 1) assert_non_null(strstr(line, "Z,")); /* times tell their zone */
        empty_values += strstr(line, "Z,,") != NULL;
    }
    fclose(f);
    assert_int_equal(n, 11);
    assert_int_equal(empty_values, 5);
    ok(dl_store_export(s, csv, NULL));
    assert_int_equal(dl_store_export(s, "/no/such/folder/x.csv", NULL), DL_ERR_IO);
    assert_int_equal(count_files(".part"), 0);
}

/* Other programs can read the database. */
static void is_read_from_outside(void **state) {
    (void)state;
    char cmd[1024], out[256] = "";
    snprintf(cmd, sizeof cmd,
             "python3 -c \"import sqlite3; d = sqlite3.connect('file:%s?mode=ro', uri=True); print(d.execute('select"
             " count(*), round(sum(value), 6) from metrics where run = 1 and key = ?', ('test/acc',)).fetchone())\"",
             db_path);
    if (system("python3 -c 'import sqlite3' 2>/dev/null")) skip();
    FILE *p = popen(cmd, "r");
    assert_non_null(fgets(out, sizeof out, p));
    pclose(p);
    assert_string_equal(out, "(10, 4.95)\n");
}

static void empty_store_answers(void **state) {
    (void)state;
    char path[400];
    snprintf(path, sizeof path, "%s/new.db", dir);
    const char *const paths[] = {"none", path};
    for (int i = 0; i < 2; i++) {
        dl_store *e = dl_store_open(paths[i]);
        has(e);
        dl_run_list *l = dl_run_query_list(e, NULL);
        has(l);
        assert_int_equal(l->n, 0);
        dl_run_list_free(l);
        assert_null(dl_run_best(e, "loss", 0, NULL, 0));
        error_says("no run has a metric");
        dl_rows *q = dl_store_sql(e, "select count(*) from metrics");
        has(q);
        assert_int_equal(dl_rows_next(q), 1);
        assert_int_equal(dl_rows_int(q, 0), 0);
        dl_rows_free(q);
        ok(dl_store_close(e));
    }
    assert_int_equal(count_files("new.db"), 0);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, fill, empty)
    const struct CMUnitTest tests[] = {
        T(lists),
        T(filters),
        T(refuses_bad_filters),
        T(deletes),
        T(shows),
        T(finds),
        T(compares),
        T(knows_directions),
        T(ranks),
        T(gives_points),
        T(runs_sql),
        T(sql_only_reads),
        T(exports),
        T(is_read_from_outside),
        T(empty_store_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
