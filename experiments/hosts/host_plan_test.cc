#include "experiments/hosts/host_plan.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::Not;

JobSpec MakeSpec(int workers, int servers) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  Cluster& cluster = *spec.mutable_experiment()->mutable_cluster();
  Hosts& hosts = *cluster.mutable_hosts();
  hosts.set_link_mbit_s(100);
  hosts.set_queue_bytes(7000);
  hosts.set_burst_bytes(3000);
  HostLink& link = *hosts.add_links();
  link.set_host("server 0");
  link.set_send_mbit_s(400);
  link.set_receive_mbit_s(12.5);
  return spec;
}

TEST(HostPlanTest, EachProcessHasAHostWithItsSpeeds) {
  const HostPlan plan = PlanHosts(MakeSpec(2, 1));
  EXPECT_THAT(plan.hosts,
              ElementsAre(FieldsAre("worker 0", ElementsAre("worker 0"), 0, 100'000'000,
                                    100'000'000, "10.77.0.2", "10.78.0.2"),
                          FieldsAre("worker 1", ElementsAre("worker 1"), 0, 100'000'000,
                                    100'000'000, "10.77.0.3", "10.78.0.3"),
                          FieldsAre("server 0", ElementsAre("server 0"), 0, 400'000'000,
                                    12'500'000, "10.77.0.4", "10.78.0.4")));
  EXPECT_EQ(plan.HostOf("server 0"), 2);
  EXPECT_EQ(plan.queue_bytes, 7000);
  EXPECT_EQ(plan.burst_bytes, 3000);
  EXPECT_EQ(plan.congestion_control, "reno");
  EXPECT_EQ(plan.racks(), 1);
}

TEST(HostPlanTest, ColocatedServersAreOnTheHostsOfTheWorkersOfTheirRanks) {
  JobSpec spec = MakeSpec(3, 2);
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  hosts.set_colocated_servers(true);
  hosts.mutable_links(0)->set_host("worker 1");
  const HostPlan plan = PlanHosts(spec);
  ASSERT_EQ(plan.hosts.size(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(plan.hosts[rank].name, "worker " + std::to_string(rank));
    EXPECT_EQ(plan.HostOf("worker " + std::to_string(rank)), rank);
  }
  EXPECT_THAT(plan.hosts[0].processes, ElementsAre("worker 0", "server 0"));
  EXPECT_THAT(plan.hosts[1].processes, ElementsAre("worker 1", "server 1"));
  EXPECT_THAT(plan.hosts[2].processes, ElementsAre("worker 2"));
  EXPECT_EQ(plan.HostOf("server 0"), 0);
  EXPECT_EQ(plan.HostOf("server 1"), 1);
  EXPECT_EQ(plan.hosts[1].send_bit_s, 400'000'000);
  EXPECT_EQ(plan.hosts[2].send_bit_s, 100'000'000);
  EXPECT_EQ(LinksOf(plan).size(), 6);
}

TEST(HostPlanTest, AnArmsOwnHostsReplaceTheExperiments) {
  JobSpec spec = MakeSpec(1, 0);
  EXPECT_TRUE(OnHosts(spec));
  Hosts& own = *spec.mutable_arm()->mutable_cluster()->mutable_hosts();
  own.set_link_mbit_s(5);
  EXPECT_EQ(PlanHosts(spec).hosts[0].send_bit_s, 5'000'000);
  EXPECT_FALSE(OnHosts(JobSpec()));
}

TEST(HostPlanTest, AddressesDifferAndAreNeverTheCoordinators) {
  const HostPlan plan = PlanHosts(MakeSpec(600, 400));
  std::set<std::string> addresses = {HostPlan::kCoordinatorAddress};
  for (const PlannedHost& host : plan.hosts) {
    EXPECT_TRUE(addresses.insert(host.data_address).second) << host.data_address;
    EXPECT_TRUE(addresses.insert(host.control_address).second) << host.control_address;
  }
  EXPECT_EQ(plan.hosts[999].data_address, "10.77.3.233");
}

TEST(HostPlanTest, LinksHaveTwoDirectionsEach) {
  JobSpec spec = MakeSpec(1, 1);
  Racks& racks =
      *spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->mutable_racks();
  racks.set_link_mbit_s(50);
  racks.add_second("server 0");
  EXPECT_THAT(LinksOf(PlanHosts(spec)),
              ElementsAre(FieldsAre("worker 0", true, 100'000'000),
                          FieldsAre("worker 0", false, 100'000'000),
                          FieldsAre("server 0", true, 400'000'000),
                          FieldsAre("server 0", false, 12'500'000),
                          FieldsAre("rack 0", true, 50'000'000),
                          FieldsAre("rack 0", false, 50'000'000)));
}

TEST(HostPlanTest, CommandsShapeBothEndsOfALink) {
  const HostPlan plan = PlanHosts(MakeSpec(0, 1));
  const NamespaceCommands at_switch = SwitchCommands(plan, {"/proc/1/fd/9"});
  EXPECT_EQ(at_switch.ip,
            "link add name control group 77 type bridge mcast_snooping 0\n"
            "link set control up\n"
            "address add 10.78.0.1/16 dev control\n"
            "link add name switch-0 group 77 type bridge mcast_snooping 0\n"
            "link set switch-0 up\n"
            "link add name data-0 group 77 type veth peer name data netns /proc/1/fd/9\n"
            "link set data-0 master switch-0 up\n"
            "link add name control-0 group 77 type veth peer name control netns "
            "/proc/1/fd/9\n"
            "link set control-0 master control up\n");
  EXPECT_EQ(at_switch.tc,
            "qdisc add dev data-0 root tbf rate 12500000bit burst 3000 limit 7000\n");
  const NamespaceCommands at_host = HostCommands(plan, 0);
  EXPECT_EQ(at_host.ip,
            "link set lo up\n"
            "address add 10.77.0.2/16 dev data noprefixroute\n"
            "address add 10.78.0.2/16 dev control\n"
            "link set data up\n"
            "link set control up\n"
            "route add 10.77.0.0/16 dev data src 10.77.0.2 congctl reno\n");
  EXPECT_EQ(at_host.tc,
            "qdisc add dev data root tbf rate 400000000bit burst 3000 limit 7000\n");
}

TEST(HostPlanTest, RacksHaveASwitchEachAndOneLinkBetween) {
  JobSpec spec = MakeSpec(2, 0);
  Racks& racks =
      *spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->mutable_racks();
  racks.set_link_mbit_s(50);
  racks.add_second("worker 1");
  const HostPlan plan = PlanHosts(spec);
  EXPECT_EQ(plan.hosts[0].rack, 0);
  EXPECT_EQ(plan.hosts[1].rack, 1);
  const NamespaceCommands commands = SwitchCommands(plan, {"a", "b"});
  for (const char* line :
       {"link add name rack-0 group 77 type veth peer name rack-1 group 77\n"
        "link set rack-0 master switch-0 up\nlink set rack-1 master switch-1 up\n",
        "link set data-0 master switch-0 up\n", "link set data-1 master switch-1 up\n"}) {
    EXPECT_THAT(commands.ip, HasSubstr(line));
  }
  for (const char* end : {"rack-0", "rack-1"}) {
    EXPECT_THAT(commands.tc, HasSubstr(std::string("qdisc add dev ") + end +
                                       " root tbf rate 50000000bit"));
  }
  EXPECT_THAT(SwitchCommands(PlanHosts(MakeSpec(2, 0)), {"a", "b"}).ip,
              Not(HasSubstr("rack-")));
}

}  // namespace
}  // namespace psring
