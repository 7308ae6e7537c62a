// Messages in protobuf's text format, written by people: reading them, changing single
// fields, and errors that say where a field came from and what it could have been.
//
// Errors are InvalidArgument and one line, "ORIGIN: field.path: what is wrong; allowed:
// ...", where ORIGIN is "FILE:LINE" or "--set OVERRIDE". Paths name elements of lists by
// index: arms[1].cluster.servers.
#ifndef PSRING_EXPERIMENTS_CONFIG_TEXT_H_
#define PSRING_EXPERIMENTS_CONFIG_TEXT_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace psring {

// Where each field of one message was set. Not thread-safe.
class FieldOrigins {
 public:
  explicit FieldOrigins(std::string file);

  void Set(const std::string& path, const std::string& origin);
  // Drops what is known of the field and of everything inside it.
  void Forget(const std::string& path);

  // Whether the field was written down, be it with its default value.
  bool Has(const std::string& path) const { return origins_.contains(path); }

  // The error that the field has; a field that was not written has the origin of the
  // innermost message round it that was.
  absl::Status Error(const std::string& path, absl::string_view problem,
                     absl::string_view allowed) const;

  const std::string& file() const { return file_; }

 private:
  const std::string file_;
  std::map<std::string, std::string> origins_;
};

// Reads the text into `message`, which is empty, and notes the line of each field.
absl::Status ReadText(const std::string& text, google::protobuf::Message* message,
                      FieldOrigins* origins);

// Applies one "path=value", whose value is in text format too (a string may go without
// quotes, and then is taken as it is): training.steps=50, model.mlp.hidden=[256,128],
// arms[1].cluster.servers=2. Replaces what the field had, and the other member where the
// field belongs to a oneof.
absl::Status ApplyOverride(const std::string& assignment,
                           google::protobuf::Message* message, FieldOrigins* origins);

// The message's text without line breaks.
std::string OnOneLine(const google::protobuf::Message& message);

// For the "allowed" of an error: "steps, epochs, global_batch".
std::string FieldNames(const google::protobuf::Descriptor& type);
std::string MemberNames(const google::protobuf::OneofDescriptor& oneof);
std::string ValueNames(const google::protobuf::EnumDescriptor& type);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONFIG_TEXT_H_
