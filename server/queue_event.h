// What happens when an operation on a gRPC completion queue is done.
#ifndef PSRING_SERVER_QUEUE_EVENT_H_
#define PSRING_SERVER_QUEUE_EVENT_H_

#include <functional>
#include <memory>
#include <utility>

namespace psring {

// Its address is the operation's tag.
class QueueEvent {
 public:
  virtual ~QueueEvent() = default;

  // Called once for each operation by whoever takes its tag from the queue, who does not
  // use the event afterwards: it may have ended. `ok` as of the queue.
  virtual void Run(bool ok) = 0;

  void* tag() { return this; }
  static QueueEvent* Of(void* tag) { return static_cast<QueueEvent*>(tag); }
};

// Of one operation, made for it; ends with it.
class OneTimeEvent final : public QueueEvent {
 public:
  explicit OneTimeEvent(std::function<void(bool ok)> done) : done_(std::move(done)) {}

  void Run(bool ok) override {
    const std::unique_ptr<OneTimeEvent> self(this);
    done_(ok);
  }

 private:
  const std::function<void(bool ok)> done_;
};

// A part of its owner, for one operation after another. Keeps the owner while one is
// under way.
template <typename Owner>
class OwnedEvent final : public QueueEvent {
 public:
  OwnedEvent(Owner* owner, void (Owner::*done)(bool ok)) : owner_(owner), done_(done) {}

  // The tag of an operation that begins.
  void* Begin() {
    alive_ = owner_->shared_from_this();
    return tag();
  }

  void Run(bool ok) override {
    // The operation may begin again meanwhile.
    const std::shared_ptr<Owner> alive = std::move(alive_);
    (owner_->*done_)(ok);
  }

 private:
  Owner* const owner_;
  void (Owner::*const done_)(bool ok);
  std::shared_ptr<Owner> alive_;
};

}  // namespace psring

#endif  // PSRING_SERVER_QUEUE_EVENT_H_
