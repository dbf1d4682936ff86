BEGIN TRANSACTION;
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO "about" VALUES('campaign','kept');
INSERT INTO "about" VALUES('schema','3');
CREATE TABLE decision (
    sequence INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    side TEXT NOT NULL,
    level INTEGER NOT NULL,
    incentive INTEGER NOT NULL CHECK (incentive >= 0),
    response REAL NOT NULL,
    expected_cost REAL NOT NULL,
    propensity REAL NOT NULL,
    propensities TEXT NOT NULL DEFAULT '[]',
    reason TEXT NOT NULL,
    model_version TEXT NOT NULL,
    price_version INTEGER NOT NULL,
    features_at INTEGER,
    decided_at INTEGER NOT NULL
, most_units INTEGER NOT NULL DEFAULT 1) STRICT;
INSERT INTO "decision" VALUES(1,'expired','a','customer',1,50,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714564800000000,1);
INSERT INTO "decision" VALUES(2,'merchant-expired','a','merchant',1,60,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714564800000000,1);
INSERT INTO "decision" VALUES(3,'open','a','customer',1,50,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714572000000000,1);
INSERT INTO "decision" VALUES(4,'paid','a','customer',2,130,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714572000000000,1);
INSERT INTO "decision" VALUES(5,'returned','a','customer',1,50,0.25,12.5,0.5,'[]','tie','m',1,1714564800250000,1714572000000000,1);
INSERT INTO "decision" VALUES(6,'merchant-open','a','merchant',1,60,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714572000000000,1);
INSERT INTO "decision" VALUES(7,'merchant-paid','a','merchant',0,20,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714572000000000,1);
INSERT INTO "decision" VALUES(8,'second','a','customer',2,130,0.25,12.5,0.5,'[]','tie','m',1,NULL,1714572000000000,1);
INSERT INTO "decision" VALUES(9,'refused','a','customer',0,0,0.125,0.0,1.0,'[1.0,0.0,0.0]','budget_exhausted','m',1,NULL,1714572000000000,1);
CREATE TABLE outcome (
    sequence INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    event_id TEXT NOT NULL,
    request_id TEXT NOT NULL UNIQUE REFERENCES decision (request_id),
    side TEXT NOT NULL,
    response REAL NOT NULL CHECK (response >= 0),
    cost INTEGER NOT NULL CHECK (cost >= 0),
    late INTEGER NOT NULL,
    content TEXT NOT NULL,
    observed_at INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    UNIQUE (source, event_id)
) STRICT;
INSERT INTO "outcome" VALUES(1,'shop','of-paid','paid','customer',1.0,130,0,'paid True None 130',1714572000000000,1714572000000000);
INSERT INTO "outcome" VALUES(2,'shop','of-merchant-paid','merchant-paid','merchant',2.5,50,0,'merchant-paid None 2.5 50',1714572000000000,1714572000000000);
INSERT INTO "outcome" VALUES(3,'shop','of-expired','expired','customer',1.0,50,1,'expired True None 50',1714572000000000,1714572000000000);
CREATE TABLE promise (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    side TEXT NOT NULL,
    reserved INTEGER NOT NULL CHECK (reserved > 0),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "promise" VALUES('merchant-open','merchant',60,1714579200000000);
INSERT INTO "promise" VALUES('open','customer',50,1714579200000000);
INSERT INTO "promise" VALUES('second','customer',130,1714579200000000);
CREATE TABLE release (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    side TEXT NOT NULL,
    cause TEXT NOT NULL,
    reserved INTEGER NOT NULL,
    released_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "release" VALUES('expired','customer','expired',50,1714572000000000);
INSERT INTO "release" VALUES('merchant-expired','merchant','expired',60,1714572000000000);
INSERT INTO "release" VALUES('returned','customer','returned',50,1714572000000000);
CREATE TABLE settlement (
    side TEXT PRIMARY KEY,
    outcomes INTEGER NOT NULL DEFAULT 0,
    closed INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    returned INTEGER NOT NULL DEFAULT 0,
    spent INTEGER NOT NULL DEFAULT 0,
    late INTEGER NOT NULL DEFAULT 0,
    responses REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO "settlement" VALUES('customer',2,230,50,50,180,50,2.0);
INSERT INTO "settlement" VALUES('merchant',1,80,60,0,50,0,2.5);
CREATE TABLE tally (
    side TEXT NOT NULL,
    level INTEGER NOT NULL,
    reason TEXT NOT NULL,
    decisions INTEGER NOT NULL,
    authorised INTEGER NOT NULL, reserved INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (side, level, reason)
) STRICT, WITHOUT ROWID;
INSERT INTO "tally" VALUES('customer',0,'budget_exhausted',1,0,0);
INSERT INTO "tally" VALUES('customer',1,'tie',3,150,150);
INSERT INTO "tally" VALUES('customer',2,'tie',2,260,260);
INSERT INTO "tally" VALUES('merchant',0,'tie',1,20,20);
INSERT INTO "tally" VALUES('merchant',1,'tie',2,120,120);
CREATE INDEX decision_time ON decision (decided_at);
CREATE INDEX promise_expiry ON promise (expires_at);
COMMIT;
