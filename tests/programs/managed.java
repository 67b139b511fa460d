// A Java program for probes, run from its source: code is compiled while it runs, null pointers are found by faults, classes are
// made, garbage is collected. For each line with a number it asks for a collection so often, and prints `calls=TOTAL`;
// at the end of its input it ends with exit code 7, or with 8 if anything was computed wrong.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

public class managed {
	static volatile int wrong;
	static volatile boolean over;

	static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

	static int length(String text) {
		try {
			return text.length();
		} catch (NullPointerException fault) {
			return -1;
		}
	}

	static void busy() {
		List<byte[]> kept = new ArrayList<>();
		for (int round = 0; !over; round++) {
			final int own = round;
			IntUnaryOperator made = x -> x + own;
			if (fib(15) != 610 || made.applyAsInt(1) != own + 1 || length(round % 3 == 0 ? null : "abc") != (round % 3 == 0 ? -1 : 3))
				wrong++;
			kept.add(new byte[10000]);
			if (kept.size() > 500)
				kept.clear();
		}
	}

	public static void main(String[] arguments) throws Exception {
		Thread[] threads = new Thread[2];
		for (int i = 0; i < threads.length; i++) {
			threads[i] = new Thread(managed::busy);
			threads[i].start();
		}
		System.out.println("ready");
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		int total = 0;
		for (String line; (line = input.readLine()) != null;) {
			int count = Integer.parseInt(line.trim());
			for (int i = 0; i < count; i++)
				System.gc();
			total += count;
			System.out.println("calls=" + total);
		}
		over = true;
		for (Thread thread : threads)
			thread.join();
		System.exit(wrong == 0 ? 7 : 8);
	}
}
