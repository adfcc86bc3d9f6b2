import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.io.PrintStream;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Runs DynamoDB Local on the port that the property names, or a free one, of the loopback address, prints the port, and ends with its standard input. */
public final class LocalDynamo {
    public static void main(String[] arguments) throws Exception {
        PrintStream answer = System.out;
        System.setOut(System.err); // its banner must not stand before the port
        DynamoDBProxyServer dynamo = ServerRunner.createServerFromCommandLineArgs(arguments);
        // There is no option for the address.
        Field field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        ServerConnector connector = (ServerConnector) ((Server) field.get(dynamo)).getConnectors()[0];
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.getInteger("port", 0));
        dynamo.start();
        answer.println(connector.getLocalPort());
        answer.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        System.exit(0);
    }
}
