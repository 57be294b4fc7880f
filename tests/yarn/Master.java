import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;
import org.apache.hadoop.yarn.client.api.NMClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** An application's master for tests: keeps GUARANTEED and OPPORTUNISTIC workers of MIB running, whoever ends them. */
public class Master {
  private static final Map<ExecutionType, Deque<ContainerRequest>> open = new HashMap<>();

  public static void main(String[] args) throws Exception {
    int guaranteed = Integer.parseInt(args[0]), opportunistic = Integer.parseInt(args[1]);
    int mib = Integer.parseInt(args[2]);
    for (ExecutionType type : ExecutionType.values()) open.put(type, new ArrayDeque<>());
    YarnConfiguration conf = new YarnConfiguration();
    AMRMClient<ContainerRequest> manager = AMRMClient.createAMRMClient();
    manager.init(conf);
    manager.start();
    NMClient node = NMClient.createNMClient();
    node.init(conf);
    node.start();
    manager.registerApplicationMaster("localhost", 0, "");
    for (int i = 0; i < guaranteed; i++) ask(manager, mib, ExecutionType.GUARANTEED);
    for (int i = 0; i < opportunistic; i++) ask(manager, mib, ExecutionType.OPPORTUNISTIC);
    Map<ContainerId, ExecutionType> mine = new HashMap<>();
    while (true) {
      var answer = manager.allocate(0.5f);
      for (Container each : answer.getAllocatedContainers()) {
        ContainerRequest request = open.get(each.getExecutionType()).poll();
        if (request == null) {
          // A request that was sent twice.
          manager.releaseAssignedContainer(each.getId());
          continue;
        }
        manager.removeContainerRequest(request);
        mine.put(each.getId(), each.getExecutionType());
        ContainerLaunchContext context =
            ContainerLaunchContext.newInstance(
                Collections.emptyMap(), Collections.emptyMap(),
                Arrays.asList("sh -c 'sleep 1000 & wait'"), null, null, null);
        try {
          node.startContainer(each, context);
        } catch (Exception refused) {
          System.err.println("not started: " + refused);
        }
      }
      for (ContainerStatus each : answer.getCompletedContainersStatuses()) {
        ExecutionType type = mine.remove(each.getContainerId());
        if (type != null) ask(manager, mib, type);
      }
      Thread.sleep(300);
    }
  }

  private static void ask(AMRMClient<ContainerRequest> manager, int mib, ExecutionType type) {
    Priority priority = Priority.newInstance(type == ExecutionType.GUARANTEED ? 1 : 2);
    ContainerRequest request =
        ContainerRequest.newBuilder()
            .capability(Resource.newInstance(mib, 1))
            .priority(priority)
            .relaxLocality(true)
            .executionTypeRequest(ExecutionTypeRequest.newInstance(type, true))
            .build();
    open.get(type).add(request);
    manager.addContainerRequest(request);
  }
}
