// The judge is the generated code: what it writes must be split right, and what is
// accepted here it must accept too, with the same payload.
#include "common/wire_message.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

Bytes BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<Bytes> Slices(const std::string& text, size_t size) {
  std::vector<Bytes> slices;
  for (Bytes left = BytesOf(text); !left.empty();) {
    const size_t taken = std::min(size, left.size());
    slices.push_back(left.first(taken));
    left = left.subspan(taken);
  }
  return slices;
}

std::string Joined(const std::vector<Bytes>& pieces) {
  std::string joined;
  for (const Bytes& piece : pieces) {
    joined.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return joined;
}

absl::StatusOr<SplitMessage> SplitOf(const std::string& message) {
  const Bytes whole = BytesOf(message);
  return Split({&whole, 1});
}

ParameterRequest SomeRequest() {
  ParameterRequest request;
  request.set_id(1ull << 63);
  request.set_operation(ParameterRequest::PUSH);
  request.set_slot(-1);  // Ten bytes.
  request.set_step(300);
  return request;
}

TEST(WireMessageTest, AnEncodedHeaderAndItsPayloadAreTheGeneratedBytes) {
  const ParameterRequest header = SomeRequest();
  for (const size_t size : {0, 4, 124, 128, 70000}) {
    const std::string payload(size, 'x');
    ParameterRequest whole = header;
    whole.set_payload(payload);
    EXPECT_EQ(EncodeHeader(header, static_cast<int64_t>(size)) + payload,
              whole.SerializeAsString());
  }
}

TEST(WireMessageTest, AnyCutGivesHeaderAndPayload) {
  const std::string payload = "payload of 20 bytes.";
  ParameterRequest request = SomeRequest();
  const std::string header = request.SerializeAsString();
  request.set_payload(payload);
  const std::string bytes = request.SerializeAsString();
  for (size_t size = 1; size <= bytes.size(); ++size) {
    ASSERT_OK_AND_ASSIGN(const SplitMessage message, Split(Slices(bytes, size)));
    EXPECT_EQ(message.header, header);
    EXPECT_EQ(Joined(message.payload), payload);
  }
  // In place.
  ASSERT_OK_AND_ASSIGN(const SplitMessage message, SplitOf(bytes));
  EXPECT_EQ(message.payload[0].data(), BytesOf(bytes).data() + header.size() + 2);
}

TEST(WireMessageTest, FieldsMayComeInAnyOrderAndUnknownOnesAreSkipped) {
  const std::string payload = std::string("\x7a\x04", 2) + "abcd";
  const std::string unknown = std::string("\xd0\x0f\x05", 3) +           // 250: a number
                              std::string("\xd9\x0f", 2) + "12345678" +  // 251: fixed64
                              std::string("\xe2\x0f\x03", 3) + "xyz" +   // 252: bytes
                              std::string("\xed\x0f", 2) + "1234";       // 253: fixed32
  ParameterRequest header;
  const std::string bytes = payload + unknown + SomeRequest().SerializeAsString();
  const Bytes whole = BytesOf(bytes);
  ASSERT_OK_AND_ASSIGN(std::vector<Bytes> pieces, ParseMessage({&whole, 1}, &header));
  ASSERT_OK_AND_ASSIGN(const FloatPieces floats, FloatsOf(std::move(pieces)));
  EXPECT_EQ(floats.count(), 1);
  EXPECT_EQ(header.id(), 1ull << 63);
  EXPECT_EQ(header.step(), 300);
  EXPECT_EQ(header.slot(), -1);
}

TEST(WireMessageTest, AnEmptyMessageIsOneWithoutFields) {
  ParameterRequest header;
  ASSERT_OK_AND_ASSIGN(std::vector<Bytes> pieces, ParseMessage({}, &header));
  ASSERT_OK_AND_ASSIGN(const FloatPieces floats, FloatsOf(std::move(pieces)));
  EXPECT_EQ(floats.count(), 0);
  EXPECT_EQ(header.id(), 0u);
}

TEST(WireMessageTest, RefusesWhatIsNoMessage) {
  const auto is_malformed = [](const std::string& part) {
    return StatusIs(kInvalidArgument, AllOf(HasSubstr("malformed message: "),
                                            HasSubstr(part), Not(HasSubstr("\n"))));
  };
  const std::string minus_one(9, '\xff');
  EXPECT_THAT(SplitOf("\x08"), is_malformed("it ends within a number"));
  EXPECT_THAT(SplitOf("\x08\xff"), is_malformed("it ends within a number"));
  EXPECT_THAT(SplitOf("\x7a"), is_malformed("it ends within a number"));
  EXPECT_THAT(SplitOf("\x7a\x05"
                      "abcd"),
              is_malformed("field 15 has 5 bytes, and 4 are"));
  EXPECT_THAT(SplitOf("\x11"
                      "abc"),
              is_malformed("field 2 has 8 bytes, and 3 are left"));
  EXPECT_THAT(SplitOf("\x15"
                      "abc"),
              is_malformed("field 2 has 4 bytes, and 3 are left"));
  EXPECT_THAT(SplitOf("\x7a" + minus_one +
                      "\x01"
                      "abcd"),
              is_malformed("field 15 has 18446744073709551615 bytes, and 4 are left"));
  EXPECT_THAT(SplitOf("\x7a" + minus_one +
                      "\x02"
                      "abcd"),
              is_malformed("64 bits"));
  EXPECT_THAT(SplitOf("\x08" + minus_one + "\xff"), is_malformed("64 bits"));
  EXPECT_THAT(SplitOf(std::string("\x00", 1)), is_malformed("there is no field 0"));
  EXPECT_THAT(SplitOf("\xff\xff\xff\xff\x7f"), is_malformed("there is no field"));
  EXPECT_THAT(SplitOf("\x7b\x7c"), is_malformed("field 15 has type 3"));
  EXPECT_THAT(SplitOf("\x7c"), is_malformed("field 15 has type 4"));
  EXPECT_THAT(SplitOf("\x7e"), is_malformed("field 15 has type 6"));
  EXPECT_THAT(SplitOf("\x7a\x01"
                      "a\x7a\x01"
                      "b"),
              is_malformed("two payloads"));
}

TEST(WireMessageTest, TheHeaderIsBoundedHoweverItIsMadeUp) {
  const auto is_too_long = StatusIs(kInvalidArgument, HasSubstr("more than 65536 bytes"));
  std::string many;
  for (int i = 0; i < kMaxHeaderBytes / 2; ++i) many += "\x08\x01";
  EXPECT_OK(SplitOf(many));
  EXPECT_THAT(SplitOf(many + "\x08\x01"), is_too_long);
  std::string long_field = "\x0a";
  for (int size = kMaxHeaderBytes; size > 0; size >>= 7) {
    long_field.push_back(static_cast<char>((size & 0x7f) | (size >= 0x80 ? 0x80 : 0)));
  }
  EXPECT_THAT(SplitOf(long_field + std::string(kMaxHeaderBytes, 'x')), is_too_long);
}

TEST(WireMessageTest, AHeaderOfOtherTypesAndAPayloadOfHalfFloatsAreRefused) {
  WorkerHello hello;
  const std::string bytes =
      "\x0a\x01\xff"
      "\x12\x02\xc3\x28";  // The job is no UTF-8.
  const Bytes whole = BytesOf(bytes);
  EXPECT_THAT(ParseMessage({&whole, 1}, &hello),
              StatusIs(kInvalidArgument, HasSubstr("is no psring.WorkerHello")));
  ParameterRequest request;
  request.set_payload("1234567");
  const std::string half = request.SerializeAsString();
  const Bytes half_bytes = BytesOf(half);
  ASSERT_OK_AND_ASSIGN(std::vector<Bytes> pieces,
                       ParseMessage({&half_bytes, 1}, &request));
  EXPECT_THAT(FloatsOf(std::move(pieces)),
              StatusIs(kInvalidArgument,
                       "the payload has 7 bytes, which are no whole "
                       "floats"));
}

// Whatever is cut off or flipped: accepted means that the generated parser agrees.
TEST(WireMessageTest, NoMutationIsTakenForAnotherMessage) {
  ParameterRequest request = SomeRequest();
  request.set_payload("12345678");
  const std::string bytes = request.SerializeAsString();
  int accepted = 0, refused = 0;
  const auto judge = [&](const std::string& mutated) {
    ParameterRequest ours, whole;
    for (const size_t size : {1, 3, 1000}) {
      const absl::StatusOr<SplitMessage> message = Split(Slices(mutated, size));
      if (!message.ok() || !ours.ParseFromString(message->header)) {
        ++refused;
        continue;
      }
      ++accepted;
      ASSERT_TRUE(whole.ParseFromString(mutated));
      ours.set_payload(Joined(message->payload));
      ASSERT_EQ(ours.SerializeAsString(), whole.SerializeAsString());
    }
  };
  for (size_t size = 0; size < bytes.size(); ++size) judge(bytes.substr(0, size));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string mutated = bytes;
    mutated[bit / 8] = static_cast<char>(mutated[bit / 8] ^ (1 << bit % 8));
    judge(mutated);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace psring
