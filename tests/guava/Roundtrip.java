// The other side of the tests of interchange: Guava's own BloomFilter, on files of keys.
//
//   java -cp guava.jar Roundtrip.java put  FUNNEL KEYS FILTER EXPECTED RATE   makes a filter
//   java -cp guava.jar Roundtrip.java more FUNNEL KEYS FILTER                 adds to one
//   java -cp guava.jar Roundtrip.java ask  FUNNEL KEYS FILTER                 a 1 or 0 a key
//
// KEYS is for each key its length (int, big-endian) and the bytes that mmbloom hashes. They are
// made the type that the funnel takes, which must make the same bytes of it again. "ask" also
// writes the filter that it read to FILTER.again.

import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

public class Roundtrip {
    public static void main(String[] args) throws IOException {
        switch (args[1]) {
            case "bytes":
                run(args, Funnels.byteArrayFunnel(), raw -> raw);
                break;
            case "utf8":
                run(args, Funnels.stringFunnel(StandardCharsets.UTF_8),
                        raw -> new String(raw, StandardCharsets.UTF_8));
                break;
            case "chars":
                run(args, Funnels.unencodedCharsFunnel(),
                        raw -> new String(raw, StandardCharsets.UTF_16LE));
                break;
            case "int":
                run(args, Funnels.integerFunnel(), raw -> little(raw).getInt());
                break;
            case "long":
                run(args, Funnels.longFunnel(), raw -> little(raw).getLong());
                break;
            default:
                throw new IllegalArgumentException(args[1]);
        }
    }

    private static ByteBuffer little(byte[] raw) {
        return ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static <T> void run(String[] args, Funnel<? super T> funnel, Function<byte[], T> read)
            throws IOException {
        Path file = Path.of(args[3]);
        List<T> keys = new ArrayList<>();
        byte[] all = Files.readAllBytes(Path.of(args[2]));
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(all))) {
            while (in.available() > 0) {
                keys.add(read.apply(in.readNBytes(in.readInt())));
            }
        }
        BloomFilter<T> filter;
        if (args[0].equals("put")) {
            filter = BloomFilter.create(
                    funnel, Long.parseLong(args[4]), Double.parseDouble(args[5]));
        } else {
            try (InputStream in = new BufferedInputStream(Files.newInputStream(file))) {
                filter = BloomFilter.readFrom(in, funnel);
            }
        }
        if (args[0].equals("ask")) {
            StringBuilder found = new StringBuilder();
            for (T key : keys) {
                found.append(filter.mightContain(key) ? '1' : '0');
            }
            System.out.print(found);
            file = Path.of(args[3] + ".again");
        } else {
            keys.forEach(filter::put);
        }
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file))) {
            filter.writeTo(out);
        }
    }
}
