#include "experiments/run_schema.h"

namespace psring {

// Every table is its key's tree and nothing else, because rows arrive nearly in that
// order, but for two that have no key: `events`, and `contributions`, where one that is
// counted twice must show and not be refused.
const char kRunSchema[] = R"sql(
CREATE TABLE probed_links (
  host TEXT NOT NULL,
  alike INTEGER NOT NULL,
  between_racks INTEGER NOT NULL,
  send_bit_s INTEGER NOT NULL,
  receive_bit_s INTEGER NOT NULL,
  queue_bytes INTEGER NOT NULL,
  burst_bytes INTEGER NOT NULL,
  congestion_control TEXT NOT NULL,
  latency_ns INTEGER NOT NULL,
  out_bytes_s REAL NOT NULL,
  in_bytes_s REAL NOT NULL,
  idle REAL NOT NULL,
  PRIMARY KEY (between_racks, send_bit_s, receive_bit_s, queue_bytes, burst_bytes,
               congestion_control)
) WITHOUT ROWID;
CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  seed INTEGER NOT NULL,
  job TEXT NOT NULL,
  mode TEXT NOT NULL,
  workers INTEGER NOT NULL,
  servers INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  configuration TEXT NOT NULL,
  started_unix_ns INTEGER NOT NULL,
  ended_unix_ns INTEGER,
  outcome TEXT,
  lockstep INTEGER NOT NULL,
  reduction TEXT NOT NULL,
  restored_step INTEGER,
  UNIQUE (name, seed)
);
CREATE TABLE bucket_plan (
  run INTEGER NOT NULL REFERENCES runs,
  bucket INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  algorithm TEXT,
  PRIMARY KEY (run, bucket)
) WITHOUT ROWID;
CREATE TABLE processes (
  run INTEGER NOT NULL REFERENCES runs,
  role TEXT NOT NULL,
  rank INTEGER NOT NULL,
  host TEXT NOT NULL,
  process_id INTEGER NOT NULL,
  incarnation TEXT NOT NULL,
  joined_unix_ns INTEGER NOT NULL,
  left_unix_ns INTEGER,
  outcome TEXT,
  PRIMARY KEY (run, role, rank, incarnation)
) WITHOUT ROWID;
CREATE TABLE steps (
  run INTEGER NOT NULL REFERENCES runs,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  loss REAL,
  start_ns INTEGER NOT NULL,
  total_ns INTEGER NOT NULL,
  data_ns INTEGER NOT NULL,
  forward_ns INTEGER NOT NULL,
  backward_ns INTEGER NOT NULL,
  exposed_ns INTEGER NOT NULL,
  optimizer_ns INTEGER NOT NULL,
  recording_ns INTEGER NOT NULL,
  payload_out INTEGER NOT NULL,
  payload_in INTEGER NOT NULL,
  parked_ns INTEGER NOT NULL,
  released_by INTEGER,
  version_skew INTEGER NOT NULL,
  skipped_buckets INTEGER NOT NULL,
  late INTEGER NOT NULL,
  operations INTEGER NOT NULL,
  drift_max REAL,
  drift_mean REAL,
  PRIMARY KEY (run, rank, step)
) WITHOUT ROWID;
CREATE TABLE buckets (
  run INTEGER NOT NULL REFERENCES runs,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  ready_ns INTEGER NOT NULL,
  launched_ns INTEGER NOT NULL,
  done_ns INTEGER NOT NULL,
  working_ns INTEGER NOT NULL,
  PRIMARY KEY (run, rank, step, bucket)
) WITHOUT ROWID;
CREATE TABLE waits (
  run INTEGER NOT NULL REFERENCES runs,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  not_ready_ns INTEGER NOT NULL,
  peer_late_ns INTEGER NOT NULL,
  on_wire_ns INTEGER NOT NULL,
  working_ns INTEGER NOT NULL,
  waited_for INTEGER,
  PRIMARY KEY (run, rank, step)
) WITHOUT ROWID;
CREATE TABLE clocks (
  run INTEGER NOT NULL REFERENCES runs,
  process TEXT NOT NULL,
  time_ns INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL,
  error_ns INTEGER NOT NULL,
  PRIMARY KEY (run, process, time_ns)
) WITHOUT ROWID;
CREATE TABLE digests (
  run INTEGER NOT NULL REFERENCES runs,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (run, rank, step)
) WITHOUT ROWID;
CREATE TABLE tensor_digests (
  run INTEGER NOT NULL REFERENCES runs,
  step INTEGER NOT NULL,
  tensor INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (run, step, tensor, rank)
) WITHOUT ROWID;
CREATE TABLE contributions (
  run INTEGER NOT NULL REFERENCES runs,
  server INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  step INTEGER NOT NULL,
  version_read INTEGER NOT NULL,
  version INTEGER NOT NULL,
  dropped TEXT,
  clock_lag INTEGER NOT NULL,
  time_ns INTEGER NOT NULL
);
CREATE TABLE links (
  run INTEGER NOT NULL REFERENCES runs,
  process TEXT NOT NULL,
  kind TEXT NOT NULL,
  direction TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (run, process, kind, direction)
) WITHOUT ROWID;
CREATE TABLE link_costs (
  run INTEGER NOT NULL REFERENCES runs,
  process TEXT NOT NULL,
  awaiting_bytes_ns INTEGER NOT NULL,
  awaiting_room_ns INTEGER NOT NULL,
  retransmissions INTEGER,
  PRIMARY KEY (run, process)
) WITHOUT ROWID;
CREATE TABLE memory (
  run INTEGER NOT NULL REFERENCES runs,
  process TEXT NOT NULL,
  purpose TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (run, process, purpose)
) WITHOUT ROWID;
CREATE TABLE evaluations (
  run INTEGER NOT NULL REFERENCES runs,
  step INTEGER NOT NULL,
  loss REAL,
  accuracy REAL NOT NULL,
  digest TEXT NOT NULL,
  time_ns INTEGER,
  version_min INTEGER,
  version_max INTEGER,
  PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE events (
  run INTEGER NOT NULL REFERENCES runs,
  time_unix_ns INTEGER NOT NULL,
  severity TEXT NOT NULL,
  process TEXT,
  text TEXT NOT NULL
);
CREATE TABLE recording (
  run INTEGER NOT NULL REFERENCES runs,
  process TEXT NOT NULL,
  work TEXT NOT NULL,
  processor_ns INTEGER NOT NULL,
  PRIMARY KEY (run, process, work)
) WITHOUT ROWID;
CREATE TABLE link_samples (
  run INTEGER NOT NULL REFERENCES runs,
  host TEXT NOT NULL,
  direction TEXT NOT NULL,
  time_unix_ns INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  packets INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  backlog_bytes INTEGER NOT NULL,
  interface_bytes INTEGER NOT NULL,
  interface_packets INTEGER NOT NULL,
  resent INTEGER,
  PRIMARY KEY (run, time_unix_ns, host, direction)
) WITHOUT ROWID;
CREATE TABLE processor_samples (
  run INTEGER NOT NULL REFERENCES runs,
  time_unix_ns INTEGER NOT NULL,
  idle_ns INTEGER NOT NULL,
  total_ns INTEGER NOT NULL,
  PRIMARY KEY (run, time_unix_ns)
) WITHOUT ROWID;
)sql";

}  // namespace psring
