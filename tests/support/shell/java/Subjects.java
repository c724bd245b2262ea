import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;

/** Reads certificates (DER in hexadecimal, one a line); writes each subject as Kafka reads it, in hexadecimal UTF-8. */
public class Subjects {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        HexFormat hex = HexFormat.of();
        StringBuilder out = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; ) {
            try {
                ByteArrayInputStream der = new ByteArrayInputStream(hex.parseHex(line));
                X509Certificate certificate = (X509Certificate) factory.generateCertificate(der);
                String name = certificate.getSubjectX500Principal().getName();
                out.append(hex.formatHex(name.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception refused) {
                out.append("! ").append(String.valueOf(refused).replaceAll("\\s+", " "));
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
