// The tables of run.db.
#ifndef PSRING_EXPERIMENTS_RUN_SCHEMA_H_
#define PSRING_EXPERIMENTS_RUN_SCHEMA_H_

namespace psring {

// As SQL; experiments/SCHEMA.md says what each column means. A change of it raises the
// version, which the file carries as PRAGMA user_version.
extern const char kRunSchema[];
inline constexpr int kRunSchemaVersion = 7;

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_SCHEMA_H_
